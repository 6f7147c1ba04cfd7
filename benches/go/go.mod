module github.com/fencepost/fencepost/benches/go

go 1.19

require github.com/fencepost/fencepost/bindings/go v0.0.0

replace github.com/fencepost/fencepost/bindings/go => ../../bindings/go
