// troupe-policy-host: serves one policy to a server that keeps it out of its own process. Started
// by runtime/plugin/hosted.h only, with arguments and memory of its making.
#include "runtime/plugin/hosted.h"

int main(int argc, char** argv) {
  return troupe::plugin::serve_policy(argc, argv);
}
