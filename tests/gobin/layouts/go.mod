module layouts

go 1.19
