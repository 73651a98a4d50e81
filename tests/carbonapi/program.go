//go:build tools

// Package carbonapi names the program that the tests run against, so that go.mod and go.sum pin what it is built of.
package carbonapi

import _ "github.com/go-graphite/carbonapi/cmd/carbonapi"
