module github.com/fencepost/fencepost/bindings/go

go 1.19
