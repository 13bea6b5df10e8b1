package model_test

import (
	"flag"
	"os"
	"testing"
)

// The random tests run some checks of one seed, which takes seconds. More of them, with another seed:
//
//	go test ./testutil/model -run Random -rapid.checks 5000 -rapid.seed 7
//
// (a seed of 0 is another one each time). A script or a plan that fails is printed: it goes into cases or regressions as it is. The file that rapid leaves in
// testdata is tried first each time, until it is deleted.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "60", "rapid.seed": "1"} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}
