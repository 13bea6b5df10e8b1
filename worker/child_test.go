package worker

// child is the program that a test's child process runs, by its name.
func child(kind string) {}
