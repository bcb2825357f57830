module example.test/server

go 1.19
