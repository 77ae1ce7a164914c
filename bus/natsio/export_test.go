package natsio

import "time"

func init() { answerTimeout = time.Second }
