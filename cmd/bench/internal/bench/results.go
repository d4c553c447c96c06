package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrResults says that a file doesn't hold the results of a run.
var ErrResults = errors.New("not the results of a run")

// Save writes the report as JSON into a file, whole or not at all.
func (r *Report) Save(file string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("save the results: %w", err)
	}
	written, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("save the results: %w", err)
	}
	_, err = written.Write(append(text, '\n'))
	if e := written.Chmod(0o644); err == nil {
		err = e
	}
	if e := written.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(written.Name(), file)
	}
	if err != nil {
		_ = os.Remove(written.Name())
		return fmt.Errorf("save the results: %w", err)
	}
	return nil
}

// LoadReport reads what [Report.Save] wrote. Errors: [ErrResults], and those of reading the file.
func LoadReport(file string) (*Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	r := &Report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read results: %w: %s: %w", ErrResults, file, err)
	}
	if r.Date.IsZero() || len(r.Results) == 0 {
		return nil, fmt.Errorf("read results: %w: %s has none", ErrResults, file)
	}
	r.Goals = r.goals() // as they are now
	return r, nil
}

// LoadReportIfAny is [LoadReport], and nil where there is no such file.
func LoadReportIfAny(file string) (*Report, error) {
	r, err := LoadReport(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return r, err
}

// Keep adds to the report what an earlier run has of scenarios that this one hasn't measured to the end. Goals are
// worked out again. A run on another machine has only those to add that nobody measures unless asked: the floods say
// what is billed, which no machine changes much. A run of another kind has nothing to add.
func (r *Report) Keep(earlier *Report) {
	if earlier == nil || earlier.Quick != r.Quick || earlier.Against != r.Against {
		return
	}
	elsewhere := earlier.Machine != r.Machine
	var all []Result
	for _, s := range Scenarios() {
		result, before := r.result(s.Name), earlier.result(s.Name)
		switch {
		case result != nil && (result.Error == "" || before == nil || before.Error != ""):
			all = append(all, *result)
		case before != nil && s.asked:
			all = append(all, *before)
		case before != nil && !elsewhere:
			all = append(all, *before)
			r.LoadAverage = max(r.LoadAverage, earlier.LoadAverage)
		}
	}
	r.Results = all
	r.Interrupted = slices.ContainsFunc(all, func(one Result) bool { return one.Error != "" })
	r.Goals = r.goals()
}
