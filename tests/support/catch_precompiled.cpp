// Makes the precompiled header of all tests.
#include "support/catch.h"
