#include "ir/base/diagnostic.h"
