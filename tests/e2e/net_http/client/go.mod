module example.test/client

go 1.19
