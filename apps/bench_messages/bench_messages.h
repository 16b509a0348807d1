// `troupe bench messages`: what one message costs on each dispatcher, and what recording adds to
// it.
#pragma once

namespace troupe {
int bench_messages_main(int argc, char** argv);
}
