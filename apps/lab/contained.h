// A lab in processes of its own, so that nothing outlives it: the caller only watches; its child is
// the first process of a process namespace, holds the networks and starts the commands. The child
// dies with the caller, and with it, by the kernel's hand, everything in the namespace.
// Thread rule: called on the main thread before there are others.
#pragma once
#include <functional>
#include <string>

#include "base/result.h"
#include "lab/lab.h"
#include "lab/record.h"

namespace meadow::labapp {

// Starts `file` as a lab named `name` and runs `inside` in it, which returns an exit code. Blocks
// until that ended; SIGINT and SIGTERM end it. `record` is written for the time it runs.
Result<int> run_contained(const std::string& name, const lab::LabFile& file,
                          const std::function<int(lab::Lab&, const lab::Record&)>& inside);

// Starts a command in a host of the lab, as a child of the caller that dies with it. Returns its
// process; kNotFound if there is no such program.
Result<pid_t> start_in_host(const lab::Lab& lab, const lab::Record& record, size_t host,
                            const std::vector<std::string>& words);

// Waits for one child, or for all of them if `process` is -1: the first exit code that is not zero,
// in the order of their ends.
int wait_for(pid_t process);

}  // namespace meadow::labapp
