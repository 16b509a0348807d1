// `troupe lab` without the rest of troupe, for tests that run it as a program.
#include "apps/lab/lab_main.h"

int main(int argc, char** argv) {
  return troupe::lab_main(argc, argv);
}
