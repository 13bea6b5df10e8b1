package shop

import "fmt"

// seeds are a few minutes of a shop. Each service finds work in them, and their last events are at different places, so
// that three cursors end at three floors: analytics at 6, inventory at 7, email at 8.
var seeds = []struct{ subject, data string }{
	{"events.page_loaded", `{"page":"/home","visitor":"v1"}`},
	{"events.input_changed", `{"field":"search","visitor":"v1"}`},
	{"events.order_placed", `{"order_id":"1001","sku":"mug","quantity":2,"email":"ada@example.com"}`},
	{"events.page_loaded", `{"page":"/teapots","visitor":"v2"}`},
	{"events.order_placed", `{"order_id":"1002","sku":"teapot","quantity":1,"email":"grace@example.com"}`},
	{"events.input_changed", `{"field":"email","visitor":"v3"}`},
	{"events.order_placed", `{"order_id":"1003","sku":"mug","quantity":4,"email":"linus@example.com"}`},
	{"events.user_registered", `{"user":"edsger","email":"edsger@example.com"}`},
}

func seedID(i int) string { return fmt.Sprintf("ackfloor-examples-seed-%d", i+1) }
