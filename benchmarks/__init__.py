"""The benchmark: this proxy and its peers, measured in the same run, compared by ratios.

`python -m benchmarks` starts fast nodes, one proxy at a time and the load, pinned to cores of their own:

    __main__   options, and the loop over rounds, cases and targets (A B A B)
    scenarios/ what is measured, one family a module, with the figures to reach
    targets    the proxy under test and its peers: how each is configured and started
    nodes      the node program's handle        node     the program itself
    load       wrk's handle                     clients/ raw-protocol clients where wrk cannot do it
    process    pinned processes, their memory and processor time
    report     medians, ratios, tables, JSON
"""
