module github.com/fencepost/fencepost/tests/histories/go

go 1.19

require github.com/fencepost/fencepost/bindings/go v0.0.0

replace github.com/fencepost/fencepost/bindings/go => ../../../bindings/go
