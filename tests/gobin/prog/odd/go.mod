module example.com/odd/v3

go 1.17
