package worker

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

const defaultPrefix = "WORKER"

// FromEnv reads a Config from the environment. prefix stands before each variable of the worker, with an underscore; ""
// means WORKER. The connection's variables (NATS_URL and so on) have no prefix, so that those of the nats command serve. The
// error is a *ConfigError that names every variable that is wrong, with its value (never a secret's) and what it takes.
// A variable with the prefix that means nothing is no error: New logs a warning that names it and the nearest one.
func FromEnv(prefix string) (Config, error) {
	return fromEnv(prefix, env.ToMap(os.Environ()))
}

func fromEnv(prefix string, environ map[string]string) (Config, error) {
	if prefix == "" {
		prefix = defaultPrefix
	}
	prefix = strings.TrimSuffix(prefix, "_") + "_"
	var c Config
	problems := readFiles(environ, secretNames())
	problems = append(problems, parseInto(&c, prefix, environ)...)
	problems = append(problems, parseInto(&c.Connection, "", environ)...)
	c.Filter = trimmed(c.Filter)
	c.derive()
	problems = append(problems, c.otherProblems(prefix, problems)...)
	c.unknown = unknown(prefix, environ)
	if len(problems) > 0 {
		return c, &ConfigError{Problems: problems}
	}
	return c, nil
}

// otherProblems checks the values; those that could not be read have been reported.
func (c Config) otherProblems(prefix string, reported []string) []string {
	var out []string
	for _, p := range c.problems() {
		if !strings.HasPrefix(p, "NATS_") {
			p = prefix + p
		}
		name, _, _ := strings.Cut(p, " ")
		if !slices.ContainsFunc(reported, func(r string) bool { return strings.HasPrefix(r, name+" ") }) {
			out = append(out, p)
		}
	}
	return out
}

// parseInto sets the fields of a struct from the environment and tells what could not be read.
func parseInto(to any, prefix string, environ map[string]string) []string {
	err := env.ParseWithOptions(to, env.Options{Environment: nonEmpty(environ), Prefix: prefix})
	if err == nil {
		return nil
	}
	var all env.AggregateError
	if !errors.As(err, &all) {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range all.Errors {
		var pe env.ParseError
		if !errors.As(e, &pe) {
			out = append(out, e.Error())
			continue
		}
		f, _ := reflect.TypeOf(to).Elem().FieldByName(pe.Name)
		name := prefix + f.Tag.Get("env")
		value := fmt.Sprintf("%q", environ[name])
		if f.Tag.Get("secret") != "" {
			value = "not shown"
		}
		out = append(out, fmt.Sprintf("%s is %s: it takes %s", name, value, f.Tag.Get("accepts")))
	}
	return out
}

// nonEmpty leaves out variables that are set to nothing: a unit file or a compose file that says NAME= means the default.
func nonEmpty(environ map[string]string) map[string]string {
	out := make(map[string]string, len(environ))
	for k, v := range environ {
		if v != "" {
			out[k] = v
		}
	}
	return out
}

func trimmed(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// secretNames lists the variables that NAME_FILE can stand in for.
func secretNames() []string {
	var out []string
	for f := range fields(Connection{}) {
		if f.Tag.Get("secret") != "" {
			out = append(out, f.Tag.Get("env"))
		}
	}
	return out
}

// readFiles puts the content of the file that NAME_FILE names into NAME, for every name given.
func readFiles(environ map[string]string, names []string) (problems []string) {
	for _, name := range names {
		path := environ[name+"_FILE"]
		if path == "" {
			continue
		}
		if environ[name] != "" {
			problems = append(problems, fmt.Sprintf("%s and %s_FILE are both set: set one of them", name, name))
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s_FILE is %q: it takes the path of a readable file: %v", name, path, err))
			continue
		}
		environ[name] = strings.TrimRight(string(b), "\r\n")
	}
	return problems
}

// unknown lists the variables that bear the prefix and mean nothing, each with the name that was probably meant.
func unknown(prefix string, environ map[string]string) []string {
	var names []string
	for f := range fields(Config{}) {
		names = append(names, prefix+f.Tag.Get("env"))
	}
	var out []string
	for k := range environ {
		if !strings.HasPrefix(k, prefix) || slices.Contains(names, k) {
			continue
		}
		nearest, best := "", len(k)/2
		for _, n := range names {
			if d := distance(k, n); d < best {
				nearest, best = n, d
			}
		}
		if nearest != "" {
			out = append(out, fmt.Sprintf("%s is unknown; did you mean %s?", k, nearest))
		} else {
			out = append(out, k+" is unknown")
		}
	}
	slices.Sort(out)
	return out
}

// distance is the number of insertions, deletions and substitutions between two names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

// fields yields the fields of a struct that have a variable.
func fields(v any) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if name := f.Tag.Get("env"); name != "" && name != "-" && !yield(f) {
				return
			}
		}
	}
}
