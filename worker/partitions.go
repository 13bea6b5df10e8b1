package worker

import (
	"fmt"
	"strconv"
	"strings"
)

// Partitions makes n configurations of one, for a stream whose subjects carry the number of their partition, from 0 to n-1, as a transform of
// the stream or a mapping of the account writes it ({{partition(n,1)}}). Each has a consumer of its own, <consumer>_p0 and on, and the
// filters of c with the number in the place of their first "*": "orders.*.>" becomes "orders.0.>". Everything else is as in c, so
// Concurrency, MaxAckPending and PinnedTTL count for each partition. The handler sees the subject as it is stored, with the number in it.
// Make a Runner of each, on one connection, and run them together with RunAll.
//
// The error is a *ConfigError: n is not from 1 to 1000, or a filter has no "*" in it. How many partitions there are is not changed by the
// way: messages that wait keep the number that they were stored with.
func Partitions(c Config, n int) ([]Config, error) {
	var problems []string
	if n < 1 || n > 1000 {
		problems = append(problems, fmt.Sprintf("%d partitions: it takes a number from 1 to 1000", n))
	}
	if len(c.Filter) == 0 {
		problems = append(problems, `FILTER is "": partitions take subjects with a "*" in the place of the number, such as orders.*.>`)
	}
	for _, f := range c.Filter {
		if _, ok := numbered(f, 0); !ok {
			problems = append(problems, fmt.Sprintf(`FILTER is %q: partitions take subjects with a "*" in the place of the number, such as orders.*.>`, f))
		}
	}
	if len(problems) > 0 {
		return nil, &ConfigError{Problems: problems}
	}
	out := make([]Config, n)
	for i := range out {
		out[i] = c
		out[i].Consumer = c.Consumer + "_p" + strconv.Itoa(i)
		out[i].Filter = make([]string, len(c.Filter))
		for j, f := range c.Filter {
			out[i].Filter[j], _ = numbered(f, i)
		}
	}
	return out, nil
}

// numbered writes a partition's number into a filter.
func numbered(filter string, partition int) (string, bool) {
	tokens := strings.Split(filter, ".")
	for i, t := range tokens {
		if t == "*" {
			tokens[i] = strconv.Itoa(partition)
			return strings.Join(tokens, "."), true
		}
	}
	return filter, false
}
