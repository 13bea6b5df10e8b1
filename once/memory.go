package once

import "sync"

// memory is what this process knows better than the bucket, where that could not be told. It is small unless the bucket is out for long; what it forgets then is
// decided by the marks, as by any other process.
type memory struct {
	mu   sync.Mutex
	done map[string]struct{} // keys of messages whose effect was made
	void map[string]struct{} // calls that had none, though a mark may say that they run
}

const mostKept = 10_000

func keep(of *map[string]struct{}, key string) (known bool) {
	if *of == nil {
		*of = make(map[string]struct{})
	}
	if _, known = (*of)[key]; known {
		return true
	}
	if len(*of) >= mostKept {
		for other := range *of {
			delete(*of, other)
			break
		}
	}
	(*of)[key] = struct{}{}
	return false
}

// keepDone keeps in mind that a message is done. It returns true where that is known.
func (m *memory) keepDone(key string) (known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return keep(&m.done, key)
}

func (m *memory) isDone(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.done[key]
	return ok
}

func (m *memory) noted(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.done, key)
}

// keepVoid keeps in mind that a call has had no effect, and never will.
func (m *memory) keepVoid(call string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keep(&m.void, call)
}

func (m *memory) isVoid(call string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.void[call]
	return ok
}
