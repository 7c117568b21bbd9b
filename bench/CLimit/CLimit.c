#include "CLimit.h"
