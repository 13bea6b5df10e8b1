// Package orderpb is a generated package as users have them, for the examples and the tests of package protobuf.
package orderpb

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.75.0 generate
