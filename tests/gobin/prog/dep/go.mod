module example.com/dep.go

go 1.17
