// Command email writes to customers: on an order, and when they register. It sends by SMTP, or, with nothing set, to a receiver of its own
// that keeps the mails in files. README.md has the variables.
package main

import (
	"os"

	"github.com/ackfloor/ackfloor/examples/internal/shop"
)

func main() {
	told := os.Getenv("WORKER_START") != "" // asked before Main sets what is not set
	shop.Main(shop.Service{
		Consumer: "email",
		Filter:   "events.order_placed,events.user_registered",
		Start:    "new", // nobody wants a mail about an order of last year
		Defaults: map[string]string{
			"WORKER_CONCURRENCY":     "4",                                 // connections to the mail server at the most
			"WORKER_HANDLE_TIMEOUT":  "45s",                               // so long a crash holds up a mail that was being sent
			"WORKER_RETRY":           "30s,2m,5m,10m,20m,40m,1h,2h,4h,6h", // mail servers ask for minutes, and are out for hours
			"WORKER_MAX_ACK_PENDING": "10000",                             // mails that wait for a retry count
			"WORKER_DRAIN_TIMEOUT":   "50s",
			"WORKER_MAX_ATTEMPTS":    "12",
		},
		Open: service{told: told}.open,
	})
}
