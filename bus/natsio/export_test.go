package natsio

import "time"

func init() { answerTimeout, pushHeartbeat = time.Second, 500*time.Millisecond }
