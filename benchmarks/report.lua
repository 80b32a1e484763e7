-- wrk's result as one line of JSON, the last it prints. Nothing here runs while the load does.
done = function(summary, latency, requests)
   local e = summary.errors
   io.write(string.format(
      '\n{"requests": %d, "duration_us": %d, "bytes": %d, "p50_us": %.1f, "p99_us": %.1f, "socket_errors": %d, "status_errors": %d}\n',
      summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
      e.connect + e.read + e.write + e.timeout, e.status))
end
