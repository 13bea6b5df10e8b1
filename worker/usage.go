package worker

import (
	"fmt"
	"io"
	"reflect"
	"text/tabwriter"
)

// usage prints every variable with its present value, or its default.
func usage(w io.Writer, prefix string, environ map[string]string) {
	fmt.Fprintf(w, "A worker on a durable JetStream consumer. It is configured by its environment:\n\n")
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "VARIABLE\tVALUE\tMEANING\n")
	row := func(prefix string, f reflect.StructField) {
		name := prefix + f.Tag.Get("env")
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, shownValue(f, environ[name]), f.Tag.Get("usage"))
	}
	for f := range fields(Config{}) {
		row(prefix+"_", f)
	}
	for f := range fields(Connection{}) {
		row("", f)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "\nExit codes: 0 drained, 1 failed while running, 69 server, stream or consumer not available, 75 the drain's grace ended with\nhandlers running, 78 bad configuration, 128+n a second signal n.\n\nhealthcheck, as an argument, asks the worker that runs with this environment whether it is alive; healthcheck readyz, whether it is ready.\n")
}

func shownValue(f reflect.StructField, value string) string {
	switch {
	case value == "" && f.Tag.Get("required") != "":
		return "(required)"
	case value == "" && f.Tag.Get("shown") != "":
		return f.Tag.Get("shown") + " (default)"
	case value == "" && f.Tag.Get("envDefault") != "":
		return f.Tag.Get("envDefault") + " (default)"
	case value == "":
		return "-"
	case f.Tag.Get("secret") == "all":
		return "(set, not shown)"
	case f.Tag.Get("secret") == "url":
		return redactURL(value)
	}
	return fmt.Sprintf("%q", value)
}
