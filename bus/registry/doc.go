// Package registry follows the buckets in which workers announce their tools and operators store profiles.
package registry
