package limit_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackfloor/ackfloor"
	"github.com/ackfloor/ackfloor/limit"
	"golang.org/x/time/rate"
)

func ExampleRateBy() {
	gate, err := limit.RateBy(rate.NewLimiter(1000, 4000), limit.Bytes) // 1000 bytes a second, 4000 at once
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, size := range []int{100, 5000} {
		_, err := gate.Enter(context.Background(), &ackfloor.Message{Data: make([]byte, size)})
		fmt.Println(size, err)
	}
	// Output:
	// 100 <nil>
	// 5000 limit: the message weighs 5000, the burst is 4000: it can never pass
}

func ExampleAll() {
	perSecond, err1 := limit.Rate(rate.NewLimiter(100, 20))
	perCustomer, err2 := limit.ByKey(limit.KeyConfig{
		Key:   func(m *ackfloor.Message) string { return m.Header.Get("Customer") },
		Limit: 5, Burst: 10,
	})
	adaptive, err3 := limit.NewAdaptive(limit.AdaptiveConfig{Min: 2, Max: 32})
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Println(err)
		return
	}
	_, err := limit.All(perCustomer, perSecond, adaptive)
	fmt.Println(err)
	_, err = limit.All(adaptive, perSecond)
	fmt.Println(err)
	// Output:
	// <nil>
	// limit: configuration: gate 1 of 2 is an Adaptive: it has to be the last, or it takes the time that messages wait at the next for the handler's
}

func ExampleAdaptive_Status() {
	a, err := limit.NewAdaptive(limit.AdaptiveConfig{Max: 32, Initial: 8, Fixed: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%+v\n", a.Status())
	a.UseFixed(true) // by hand, where following does more harm than good
	fmt.Printf("%+v\n", a.Status())
	// Output:
	// {Limit:8 Running:0 Waiting:0 Fixed:false Err:<nil>}
	// {Limit:4 Running:0 Waiting:0 Fixed:true Err:<nil>}
}
