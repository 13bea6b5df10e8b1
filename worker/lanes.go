package worker

type lanes struct{}
