// `troupe bench core`: the budgets of the control path, as figures and ratios of one run.
#pragma once

namespace troupe {
int bench_core_main(int argc, char** argv);
}
