"""The benchmarks of xoff: a module for each subcommand of `scripts/bench`, and common modules.

A subcommand's module has `SUMMARY`, a line for the list of benchmarks; `ROOT_FOR`, the reason for root or `None`;
`add_arguments(parser)`; and `main(options)`, which prints the result and returns the exit status.
"""
