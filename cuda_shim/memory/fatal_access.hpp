// A CPU access to compute memory ends the process, and first says what was accessed.
//
// A fault at an address of ours writes a report to stderr: the allocation, the offset in it, and
// where it was allocated. The handler that was there before may add to it, then the signal has its
// default action. Other faults go to the handler of before only. A system call that is given such
// an address fails with EFAULT instead.
#pragma once

namespace warpserve::gpu {

struct State;

// Of the process' one state; a second call for another one is an error of the program's.
void install_fatal_access_report(const State& state);
// The state goes away: from now on, faults go to the handlers of before. Nothing where another
// state is reported.
void withdraw_fatal_access_report(const State& state);

}  // namespace warpserve::gpu
