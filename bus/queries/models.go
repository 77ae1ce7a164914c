package queries

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// models answers which models the runner knows.
func (q *queries) models(_ context.Context, _ string, data []byte) (any, error) {
	p, c, err := q.pageOf(data)
	if err != nil {
		return nil, err
	}
	answer := schemas.ModelsPage{}
	answer.Models, answer.Next = paged(p, q.o.Models(), c.Offset, func(m schemas.ModelInfo) schemas.ModelInfo { return m })
	return answer, nil
}
