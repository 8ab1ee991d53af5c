// What the precompiled header of all tests is made with.
#include "support/catch.h"
