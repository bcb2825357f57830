module example.test/demo

go 1.21
