package retry

import (
	"errors"
	"slices"
	"time"
)

// Rule picks the policy for some errors: it returns nil for those that it does not apply to. Is, As and AsFunc make rules;
// one of your own, for what these can't tell, is a function:
//
//	func(err error) retry.Policy {
//		if status(err) == http.StatusConflict {
//			return retry.Constant(100 * time.Millisecond)
//		}
//		return nil
//	}
//
// A Rule must be pure and safe for several goroutines at once. From a Runner it gets a *Failure, through which errors.Is and
// errors.As look.
type Rule func(err error) Policy

// ByError asks the rules in their order; the first that applies to the error has the policy, and otherwise is for the rest:
//
//	retry.ByError(retry.Exponential(time.Second, 5*time.Minute),
//		retry.Is(ErrBusy, retry.Constant(time.Second)),
//		retry.As[*net.OpError](retry.Exponential(10*time.Second, time.Minute)),
//		retry.As[*fs.PathError](retry.Never()))
//
// Where an error fits several rules, as a joined one may, the order of the rules decides, not that of the errors. The
// attempt that a policy gets is the message's, whatever its earlier attempts failed with. It panics without otherwise, or
// with a nil rule: that is a fault of the program, better seen at its start than at its first failure.
//
// A panic in a rule, or in the Is, As or Unwrap of an error, is not caught here: a Runner reports it, and tries the message again.
func ByError(otherwise Policy, rules ...Rule) Policy {
	must(otherwise != nil, "ByError needs a policy for the rest; use Never for no retry")
	rules = slices.Clone(rules) // the caller may write to its slice later
	for _, rule := range rules {
		must(rule != nil, "ByError has a nil rule")
	}
	return func(attempt int, err error) (time.Duration, bool) {
		for _, rule := range rules {
			if p := rule(err); p != nil {
				return p(attempt, err)
			}
		}
		return otherwise(attempt, err)
	}
}

// Is is p for errors that are target by errors.Is. A nil target is no error's: the rule never applies. It panics without p.
func Is(target error, p Policy) Rule {
	must(p != nil, "Is needs a policy; use Never for no retry")
	return func(err error) Policy {
		if target != nil && errors.Is(err, target) {
			return p
		}
		return nil
	}
}

// As is p for errors that hold an E by errors.As. It panics without p.
func As[E error](p Policy) Rule {
	must(p != nil, "As needs a policy; use Never for no retry")
	return AsFunc(func(E) Policy { return p })
}

// AsFunc is for errors that hold an E by errors.As, with the policy that pick makes from it: where a provider says itself
// when to come back, or only some of an error's codes are meant. A nil policy means that the rule does not apply, and the
// next is asked:
//
//	retry.AsFunc(func(e *api.Error) retry.Policy {
//		if e.RetryAfter > 0 {
//			return retry.Constant(e.RetryAfter)
//		}
//		return nil
//	})
//
// pick is called at each failure, from several goroutines at once. It gets the first E of the tree, in the order of errors.As, also a nil
// pointer in it. AsFunc panics without pick.
func AsFunc[E error](pick func(E) Policy) Rule {
	must(pick != nil, "AsFunc needs a function")
	return func(err error) Policy {
		if e, ok := errors.AsType[E](err); ok {
			return pick(e)
		}
		return nil
	}
}

func must(ok bool, fault string) {
	if !ok {
		panic("retry: " + fault)
	}
}
