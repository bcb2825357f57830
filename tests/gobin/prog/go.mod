module example.com/prog

go 1.17

require (
	example.com/dep.go v0.0.0-20240101000000-0123456789ab
	example.com/odd/v3 v3.2.1
)

replace (
	example.com/dep.go => ./dep
	example.com/odd/v3 v3.2.1 => ./odd
)
