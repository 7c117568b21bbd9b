#include "CMediaCrypto.h"
