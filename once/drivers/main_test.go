//go:build unix

package drivers

import (
	"context"
	"database/sql"
	"os"
	"testing"

	"github.com/ackfloor/ackfloor"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv("ACKFLOOR_ONCE_CHILD"); kind != "" {
		child(kind)
		return
	}
	code := m.Run()
	stopServers()
	os.Exit(code)
}

func nothing(context.Context, *sql.Tx, *ackfloor.Message) error { return nil }
