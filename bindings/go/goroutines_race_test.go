//go:build race

package fencepost

// The race detector allows 8,128 goroutines.
const manyGoroutines = 4_000
