package worker

import (
	"fmt"
	"reflect"
	"strings"
)

// Setting is one variable of the environment, as it stands in a Config.
type Setting struct {
	Name    string // WORKER_STREAM, NATS_URL
	Value   string // as the variable would have it; of a secret, that it is set
	Usage   string // what it means, in a line
	Default bool   // it has the value that it would have if it were not set
}

// Settings lists c as the variables that would say the same, in the order of the reference, without a secret: for a status page or a line in
// the log. prefix is the one that FromEnv takes; "" means WORKER. Fields without a variable, such as Key, are not in it. What is zero in c is shown as the default
// that it means.
func (c Config) Settings(prefix string) []Setting {
	if prefix == "" {
		prefix = defaultPrefix
	}
	c, _ = c.withDefaults()
	plain, _ := Config{Stream: c.Stream, Consumer: c.Consumer}.withDefaults() // an error leaves fields as they are, and nothing counts as default
	out := settings(strings.TrimSuffix(prefix, "_")+"_", reflect.ValueOf(c), reflect.ValueOf(plain))
	return append(out, settings("", reflect.ValueOf(c.Connection), reflect.ValueOf(plain.Connection))...)
}

func settings(prefix string, of, plain reflect.Value) []Setting {
	var out []Setting
	for f := range fields(of.Interface()) {
		value, usual := settingText(of.FieldByIndex(f.Index)), settingText(plain.FieldByIndex(f.Index))
		s := Setting{Name: prefix + f.Tag.Get("env"), Value: value, Usage: f.Tag.Get("usage"), Default: value == usual && f.Tag.Get("required") == ""}
		switch secret := f.Tag.Get("secret"); {
		case value == "":
		case secret == "all":
			s.Value = "(set, not shown)"
		case secret == "url":
			s.Value = redactURL(value)
		}
		s.Value = printable(s.Value)
		if shown := f.Tag.Get("shown"); s.Default && (s.Value == "" || s.Value == "0" || s.Value == "0s") && shown != "" {
			s.Value = shown
		}
		out = append(out, s)
	}
	return out
}

// settingText is a field as its variable would have it.
func settingText(v reflect.Value) string {
	if list, ok := v.Interface().([]string); ok {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(v.Interface())
}
