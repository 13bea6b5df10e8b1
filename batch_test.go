package ackfloor_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ackfloor/ackfloor"
)

func TestOutcomesOfABatch(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	none := func(*ackfloor.Batch) {}
	for name, tt := range map[string]struct {
		told func(*ackfloor.Batch)
		err  error
		want []error
	}{
		"all done":             {none, nil, []error{nil, nil, nil}},
		"a plain error":        {none, a, []error{a, a, a}},
		"some":                 {none, &ackfloor.BatchError{Errors: map[int]error{1: b}}, []error{nil, b, nil}},
		"some, wrapped":        {none, fmt.Errorf("x: %w", &ackfloor.BatchError{Errors: map[int]error{2: b, 0: nil}}), []error{nil, nil, b}},
		"told, then an error":  {func(x *ackfloor.Batch) { x.Done(0); x.Fail(1, b) }, a, []error{nil, b, a}},
		"told wins over some":  {func(x *ackfloor.Batch) { x.Done(1); x.Fail(2, c) }, &ackfloor.BatchError{Errors: map[int]error{1: b}}, []error{nil, nil, c}},
		"the last word counts": {func(x *ackfloor.Batch) { x.Fail(0, a); x.Done(0); x.Done(1); x.Fail(1, b) }, nil, []error{nil, b, nil}},
	} {
		x := ackfloor.NewBatch(&ackfloor.Message{}, &ackfloor.Message{}, &ackfloor.Message{})
		tt.told(x)
		if got := x.Outcomes(tt.err); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	x := ackfloor.NewBatch(&ackfloor.Message{})
	if got := x.Outcomes(&ackfloor.BatchError{Errors: map[int]error{1: a}}); got[0] == nil || !strings.Contains(got[0].Error(), "does not have") {
		t.Errorf("a message that is not there: %v", got)
	}
	if s := (&ackfloor.BatchError{Errors: map[int]error{3: a, 2: b}}).Error(); s != "2 of a batch failed, the first is message 2: b" {
		t.Error(s)
	}
}

// What is joined with a BatchError is the error of the others, and two BatchErrors are one: nothing that failed is done.
func TestBatchErrorsJoined(t *testing.T) {
	first, second, commit := errors.New("first"), errors.New("second"), errors.New("commit")
	named := func(i int, err error) error { return &ackfloor.BatchError{Errors: map[int]error{i: err}} }
	for name, tc := range map[string]struct {
		err  error
		want [3]error
	}{
		"two":             {errors.Join(named(0, first), named(1, second)), [3]error{first, second, nil}},
		"one twice":       {errors.Join(named(0, first), named(0, second)), [3]error{second, nil, nil}},
		"wrapped":         {fmt.Errorf("insert: %w", named(0, first)), [3]error{first, nil, nil}},
		"and the commit":  {errors.Join(named(0, first), commit), [3]error{first, commit, commit}},
		"the commit, and": {fmt.Errorf("%w; %w", commit, named(2, first)), [3]error{commit, commit, first}},
	} {
		b := ackfloor.NewBatch(&ackfloor.Message{}, &ackfloor.Message{}, &ackfloor.Message{})
		for i, got := range b.Outcomes(tc.err) {
			if want := tc.want[i]; want == nil && got != nil || want != nil && !errors.Is(got, want) {
				t.Errorf("%s: message %d: %v, want %v", name, i, got, want)
			}
		}
	}
}
