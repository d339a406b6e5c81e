// Small plans as text, for the tests of all that reads plans. Every one verifies and trains.
//
// The model is the same throughout: an embedding of 13 tokens into 4 numbers, in pipelines some
// layers of gelu(x w), and a head with the loss; 8 tokens, micro-batches of 2, SGD with momentum.
#pragma once

#include <string>

namespace mega::testing {

// One rank, two micro-batches.
inline const std::string kBigram = R"(megaplan 1
job bigram
seed 1
global_batch 4
sequence_length 8
vocab 13
learning_rate constant peak=0.5
mesh all dp=1
queue compute

program all persistent=1728 scratch=1152
 chunk model slots=1 slot_bytes=1344
 persistent table [13,4] @0 parameter = [13,4]
 persistent head [13,4] @256 parameter = [13,4]
 persistent table_gradient [13,4] @512 gradient table [13,4]
 persistent head_gradient [13,4] @768 gradient head [13,4]
 persistent table_velocity [52] @1024
 persistent head_velocity [52] @1280
 persistent tokens_per_step fp64 [] @1536
 persistent loss fp64 [] @1600
 persistent gradient_square_sum fp64 [] @1664
 view table_flat [52] in table @0
 view head_flat [52] in head @0
 view table_gradient_flat [52] in table_gradient @0
 view head_gradient_flat [52] in head_gradient @0
 slot tokens int32 [8,2] @0
 slot labels int32 [8,2] @64
 slot x [8,2,4] @128
 slot logits [8,2,13] @384
 slot max [8,2] @1216
 slot sum [8,2] @1280
 scratch target [8,2] @0
 scratch d_logits [8,2,13] @0
 scratch d_x [8,2,4] @832
 segment init
  init_normal:->vh -> table | value=0.1
  init_normal:->vh -> head | value=0.1
  fill -> table_velocity
  fill -> head_velocity
 segment prologue
  fill -> table_gradient_flat
  fill -> head_gradient_flat
  fill:-> -> loss
  count_tokens -> tokens_per_step | limit=32
 segment forward of model ns=2000
  input_tokens -> tokens | stride=2
  embedding tokens table -> x
  matmul:sbh,vh->sbv x head -> logits
  input_labels -> labels | stride=2
  vocab_max logits -> max | limit=13
  vocab_sum_exp logits labels max -> sum target | limit=13
  token_loss max sum target labels tokens_per_step -> loss | accumulate
 segment backward of model ns=4000
  cross_entropy_backward logits labels max sum tokens_per_step -> d_logits | limit=13
  matmul:sbv,sbh->vh d_logits x -> head_gradient | accumulate
  matmul:sbv,vh->sbh d_logits head -> d_x
  embedding_backward tokens d_x -> table_gradient | accumulate
 segment update ns=1000
  square_sum table_gradient_flat -> gradient_square_sum
  square_sum head_gradient_flat -> gradient_square_sum | accumulate
  sgd table_gradient_flat gradient_square_sum -> table_flat table_velocity | beta1=0.9 clip=1
  sgd head_gradient_flat gradient_square_sum -> head_flat head_velocity | beta1=0.9 clip=1
 sequence init
  run init
 sequence train
  run prologue
  repeat 2 as i
   run forward mb=i slot=0
   run backward mb=i slot=0
  end
  run update

ranks: all
)";

// Two replicas of a vocabulary split in two (7 rows each, one of padding). The gradients of the
// head are reduced on a queue of their own while the embedding's are computed.
inline const std::string kTensorAndData = R"(megaplan 1
job tensor-and-data
seed 1
global_batch 4
sequence_length 8
vocab 13
learning_rate constant peak=0.5
mesh all dp=2 tp=2
queue compute
queue reduce

program all persistent=1216 scratch=832
 chunk model slots=1 slot_bytes=960
 persistent table [7,4] @0 parameter = [13/tp,4]
 persistent head [7,4] @128 parameter = [13/tp,4]
 persistent table_gradient [7,4] @256 gradient table [13/tp,4]
 persistent head_gradient [7,4] @384 gradient head [13/tp,4]
 persistent table_velocity [28] @512
 persistent head_velocity [28] @640
 persistent tokens_per_step fp64 [] @768
 persistent loss fp64 [] @832
 persistent gradient_square_sum fp64 [] @896
 view table_flat [28] in table @0
 view head_flat [28] in head @0
 view table_gradient_flat [28] in table_gradient @0
 view head_gradient_flat [28] in head_gradient @0
 slot tokens int32 [8,2] @0
 slot labels int32 [8,2] @64
 slot x [8,2,4] @128
 slot logits [8,2,7] @384
 slot max [8,2] @832
 slot sum [8,2] @896
 scratch target [8,2] @0
 scratch d_logits [8,2,7] @0
 scratch d_x [8,2,4] @448
 segment init
  init_normal:->vh -> table | value=0.1
  init_normal:->vh -> head | value=0.1
  fill -> table_velocity
  fill -> head_velocity
 segment prologue
  fill -> table_gradient_flat
  fill -> head_gradient_flat
  fill:-> -> loss
  count_tokens -> tokens_per_step | limit=16 owner=tp
  all_reduce:-> tokens_per_step -> tokens_per_step | sum along=dp+tp
 segment forward of model ns=2000
  input_tokens -> tokens | stride=4 origin=2*dp
  embedding tokens table -> x | origin=7*tp
  all_reduce:sbh->sbh x -> x | sum along=tp
  matmul:sbh,vh->sbv x head -> logits
  input_labels -> labels | stride=4 origin=2*dp
  vocab_max logits -> max | limit=13 origin=7*tp
  all_reduce:sb->sb max -> max | max along=tp
  vocab_sum_exp logits labels max -> sum target | limit=13 origin=7*tp
  all_reduce:sb->sb sum -> sum | sum along=tp
  all_reduce:sb->sb target -> target | sum along=tp
  token_loss max sum target labels tokens_per_step -> loss | accumulate owner=tp
 segment backward_head of model ns=3000
  cross_entropy_backward logits labels max sum tokens_per_step -> logits | limit=13 origin=7*tp
  matmul:sbv,sbh->vh logits x -> head_gradient | accumulate
 segment reduce_head ns=500
  all_reduce head_gradient_flat -> head_gradient_flat | sum along=dp
 segment backward_table of model ns=1000
  matmul:sbv,vh->sbh logits head -> d_x
  all_reduce:sbh->sbh d_x -> d_x | sum along=tp
  embedding_backward tokens d_x -> table_gradient | accumulate origin=7*tp
 segment reduce_table ns=500
  all_reduce table_gradient_flat -> table_gradient_flat | sum along=dp
 segment update ns=1000
  square_sum table_gradient_flat -> gradient_square_sum
  square_sum head_gradient_flat -> gradient_square_sum | accumulate
  all_reduce:-> gradient_square_sum -> gradient_square_sum | sum along=tp
  all_reduce:-> loss -> loss | sum along=dp+tp
  sgd table_gradient_flat gradient_square_sum -> table_flat table_velocity | beta1=0.9 clip=1
  sgd head_gradient_flat gradient_square_sum -> head_flat head_velocity | beta1=0.9 clip=1
 sequence init
  run init
 sequence train
  run prologue
  run forward mb=0 slot=0
  run backward_head mb=0 slot=0
  run reduce_head on reduce after compute
  run backward_table mb=0 slot=0
  run reduce_table on reduce after compute
  run update after reduce

ranks: all
)";

// Three stages, four micro-batches, one forward one backward, written out by hand. A transfer and
// the one that comes the other way at the same time are one exchange:
//
//   front   F0 F1 F2 B0 F3 B1 B2 B3
//   middle     F0 F1 B0 F2 B1 F3 B2 B3
//   back          F0 B0 F1 B1 F2 B2 F3 B3
inline const std::string kPipelineOfThree = R"(megaplan 1
job pipeline
seed 1
global_batch 8
sequence_length 8
vocab 13
learning_rate constant peak=0.5
mesh all pp=3
queue compute
queue p2p

program front persistent=960 scratch=0
 chunk c slots=3 slot_bytes=576
 persistent table [13,4] @0 parameter = [13,4]
 persistent table_gradient [13,4] @256 gradient table [13,4]
 persistent table_velocity [52] @512
 persistent loss fp64 [] @768
 persistent gradient_square_sum fp64 [] @832
 persistent tokens_per_step fp64 [] @896
 view table_flat [52] in table @0
 view table_gradient_flat [52] in table_gradient @0
 slot tokens int32 [8,2] @0
 slot y [8,2,4] @64
 slot d_y [8,2,4] @320
 segment init
  init_normal:->vh -> table | value=0.1
  fill -> table_velocity
 segment prologue
  fill -> table_gradient_flat
  fill:-> -> loss
  fill:-> -> tokens_per_step
  all_reduce:-> tokens_per_step -> tokens_per_step | sum along=pp
 segment forward of c ns=1000
  input_tokens -> tokens | stride=2
  embedding tokens table -> y
 segment backward of c ns=2000
  embedding_backward tokens d_y -> table_gradient | accumulate
 segment update ns=500
  square_sum table_gradient_flat -> gradient_square_sum
  all_reduce:-> gradient_square_sum -> gradient_square_sum | sum along=pp
  all_reduce:-> loss -> loss | sum along=pp
  sgd table_gradient_flat gradient_square_sum -> table_flat table_velocity | beta1=0.9 clip=1
 sequence init
  run init
 sequence train
  run prologue
  run forward mb=0 slot=0
  exchange pp send y mb=0 slot=0 to +1 on p2p after compute ns=100
  run forward mb=1 slot=1
  exchange pp send y mb=1 slot=1 to +1 on p2p after compute ns=100
  run forward mb=2 slot=2
  exchange pp send y mb=2 slot=2 to +1, receive d_y mb=0 slot=0 from +1 on p2p after compute
  run backward mb=0 slot=0 after p2p
  run forward mb=3 slot=3%3
  exchange pp send y mb=3 slot=0 to +1, receive d_y mb=1 slot=1 from +1 on p2p after compute
  run backward mb=1 slot=1 after p2p
  exchange pp receive d_y mb=2 slot=2 from +1 on p2p after compute
  run backward mb=2 slot=2 after p2p
  exchange pp receive d_y mb=3 slot=3%3 from +1 on p2p after compute
  run backward mb=3 slot=3%3 after p2p
  run update

program middle persistent=448 scratch=256
 chunk c slots=2 slot_bytes=1280
 persistent weight [4,4] @0 parameter = [4,4]
 persistent weight_gradient [4,4] @64 gradient weight [4,4]
 persistent weight_velocity [16] @128
 persistent loss fp64 [] @192
 persistent gradient_square_sum fp64 [] @256
 persistent tokens_per_step fp64 [] @320
 view weight_flat [16] in weight @0
 view weight_gradient_flat [16] in weight_gradient @0
 slot x [8,2,4] @0
 slot z [8,2,4] @256
 slot y [8,2,4] @512
 slot d_y [8,2,4] @768
 slot d_x [8,2,4] @1024
 scratch d_z [8,2,4] @0
 segment init
  init_normal:->fh -> weight | value=0.5
  fill -> weight_velocity
 segment prologue
  fill -> weight_gradient_flat
  fill:-> -> loss
  fill:-> -> tokens_per_step
  all_reduce:-> tokens_per_step -> tokens_per_step | sum along=pp
 segment forward of c ns=1000
  matmul:sbh,fh->sbf x weight -> z
  gelu_tanh z -> y
 segment backward of c ns=2000
  gelu_tanh_backward d_y z -> d_z
  matmul:sbf,sbh->fh d_z x -> weight_gradient | accumulate
  matmul:sbf,fh->sbh d_z weight -> d_x
 segment update ns=500
  square_sum weight_gradient_flat -> gradient_square_sum
  all_reduce:-> gradient_square_sum -> gradient_square_sum | sum along=pp
  all_reduce:-> loss -> loss | sum along=pp
  sgd weight_gradient_flat gradient_square_sum -> weight_flat weight_velocity | beta1=0.9 clip=1
 sequence init
  run init
 sequence train
  run prologue
  exchange pp receive x mb=0 slot=0 from -1 on p2p after compute ns=100
  run forward mb=0 slot=0 after p2p
  exchange pp send y mb=0 slot=0 to +1 on p2p after compute ns=100
  exchange pp receive x mb=1 slot=1 from -1 on p2p ns=100
  run forward mb=1 slot=1 after p2p
  exchange pp send y mb=1 slot=1 to +1, receive d_y mb=0 slot=0 from +1 on p2p after compute
  run backward mb=0 slot=0 after p2p
  exchange pp send d_x mb=0 slot=0 to -1, receive x mb=2 slot=0 from -1 on p2p after compute
  run forward mb=2 slot=0 after p2p
  exchange pp send y mb=2 slot=0 to +1, receive d_y mb=1 slot=1 from +1 on p2p after compute
  run backward mb=1 slot=1 after p2p
  exchange pp send d_x mb=1 slot=1 to -1, receive x mb=3 slot=1 from -1 on p2p after compute
  run forward mb=3 slot=1 after p2p
  exchange pp send y mb=3 slot=1 to +1, receive d_y mb=2 slot=0 from +1 on p2p after compute
  run backward mb=2 slot=0 after p2p
  exchange pp send d_x mb=2 slot=0 to -1 on p2p after compute
  exchange pp receive d_y mb=3 slot=1 from +1 on p2p
  run backward mb=3 slot=1 after p2p
  exchange pp send d_x mb=3 slot=1 to -1 on p2p after compute
  run update after p2p

program back persistent=960 scratch=832
 chunk c slots=1 slot_bytes=1536
 persistent head [13,4] @0 parameter = [13,4]
 persistent head_gradient [13,4] @256 gradient head [13,4]
 persistent head_velocity [52] @512
 persistent loss fp64 [] @768
 persistent gradient_square_sum fp64 [] @832
 persistent tokens_per_step fp64 [] @896
 view head_flat [52] in head @0
 view head_gradient_flat [52] in head_gradient @0
 slot x [8,2,4] @0
 slot d_x [8,2,4] @256
 slot labels int32 [8,2] @512
 slot logits [8,2,13] @576
 slot max [8,2] @1408
 slot sum [8,2] @1472
 scratch target [8,2] @0
 scratch d_logits [8,2,13] @0
 segment init
  init_normal:->vh -> head | value=0.1
  fill -> head_velocity
 segment prologue
  fill -> head_gradient_flat
  fill:-> -> loss
  count_tokens -> tokens_per_step | limit=64
  all_reduce:-> tokens_per_step -> tokens_per_step | sum along=pp
 segment forward of c ns=1000
  matmul:sbh,vh->sbv x head -> logits
  input_labels -> labels | stride=2
  vocab_max logits -> max | limit=13
  vocab_sum_exp logits labels max -> sum target | limit=13
  token_loss max sum target labels tokens_per_step -> loss | accumulate
 segment backward of c ns=2000
  cross_entropy_backward logits labels max sum tokens_per_step -> d_logits | limit=13
  matmul:sbv,sbh->vh d_logits x -> head_gradient | accumulate
  matmul:sbv,vh->sbh d_logits head -> d_x
 segment update ns=500
  square_sum head_gradient_flat -> gradient_square_sum
  all_reduce:-> gradient_square_sum -> gradient_square_sum | sum along=pp
  all_reduce:-> loss -> loss | sum along=pp
  sgd head_gradient_flat gradient_square_sum -> head_flat head_velocity | beta1=0.9 clip=1
 sequence init
  run init
 sequence train
  run prologue
  exchange pp receive x mb=0 slot=0 from -1 on p2p after compute ns=100
  repeat 3 as i
   run forward mb=i slot=0 after p2p
   run backward mb=i slot=0
   exchange pp send d_x mb=i slot=0 to -1, receive x mb=i+1 slot=0 from -1 on p2p after compute
  end
  run forward mb=3 slot=0 after p2p
  run backward mb=3 slot=0
  exchange pp send d_x mb=3 slot=0 to -1 on p2p after compute
  run update after p2p

ranks by pp: front middle back
)";

}  // namespace mega::testing
