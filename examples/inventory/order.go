package main

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/ackfloor/ackfloor"
)

// order is the payload of events.order_placed.
type order struct {
	ID       string `json:"order_id"` // the message's own where it is missing
	SKU      string `json:"sku"`      // the article
	Quantity int64  `json:"quantity"` // 1 where it is missing
}

// Why an order is rejected. No retry mends that, and the shop is told, by events.stock_rejected.
var (
	errNoArticle  = errors.New("the order names no article (sku)")
	errQuantity   = errors.New("the quantity is below 1")
	errOutOfStock = errors.New("out of stock")
)

// errName says that the order can't even be written down, so that nobody is told of it either: it is among the dead letters.
var errName = errors.New("order_id and sku take 200 bytes at the most and no zero byte")

const longestName = 200 // bytes, of an order's id and of an article

func rejection(err error) bool {
	return errors.Is(err, errNoArticle) || errors.Is(err, errQuantity) || errors.Is(err, errOutOfStock)
}

// check finds what is wrong with an order by itself.
func (o order) check() error {
	switch {
	case len(o.ID) > longestName || len(o.SKU) > longestName || strings.Contains(o.ID+o.SKU, "\x00"):
		return errName
	case o.SKU == "":
		return errNoArticle
	case o.Quantity < 1:
		return errQuantity
	}
	return nil
}

// article is the key by which orders are handled in their order: those of one article one after another, those of others side by side. What
// can't be decoded has none; the handler refuses it.
func article(m *ackfloor.Message) string {
	var o struct {
		SKU string `json:"sku"`
	}
	_ = json.Unmarshal(m.Data, &o)
	return o.SKU
}
