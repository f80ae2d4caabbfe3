package child

import "strings"

// Error is the text of an error of another process. It is every error whose text is in it.
type Error string

func (e Error) Error() string        { return string(e) }
func (e Error) Is(target error) bool { return strings.Contains(string(e), target.Error()) }
