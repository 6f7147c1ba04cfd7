//go:build !race

package fencepost

const manyGoroutines = 12_000
