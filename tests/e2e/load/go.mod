module example.test/load

go 1.24
