//go:build all

package terraform

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// A provider stands in for those that the module takes, so that terraform itself plans it where they can't be had: it
// knows the arguments in documented, and makes up what a resource is only told when it is made.
// scripts/terraform_test.go has the real ones.
type provider struct {
	tfprotov5.ProviderServer // what terraform doesn't ask for here
}

// notTexts are the arguments that are something else than a text.
var notTexts = map[string]tftypes.Type{
	"max_instance_request_concurrency": tftypes.Number, "max_instance_count": tftypes.Number, "min_instance_count": tftypes.Number, "timeout_seconds": tftypes.Number, "retry_count": tftypes.Number,
	"num_finite_buckets": tftypes.Number, "growth_factor": tftypes.Number, "scale": tftypes.Number, "threshold_value": tftypes.Number, "threshold_percent": tftypes.Number,
	"uniform_bucket_level_access": tftypes.Bool, "force_destroy": tftypes.Bool, "disable_on_destroy": tftypes.Bool, "all_traffic_on_latest_revision": tftypes.Bool, "disable_metric_validation": tftypes.Bool,
	"labels": texts, "environment_variables": texts, "triggers": texts, "label_extractors": texts,
	"notification_channels": tftypes.List{ElementType: tftypes.String}, "bounds": tftypes.List{ElementType: tftypes.Number}, "projects": tftypes.List{ElementType: tftypes.String},
	"transport": tftypes.List{ElementType: transport},
}

var (
	texts     = tftypes.Map{ElementType: tftypes.String}
	pubsub    = tftypes.Object{AttributeTypes: map[string]tftypes.Type{"subscription": tftypes.String}}
	transport = tftypes.Object{AttributeTypes: map[string]tftypes.Type{"pubsub": tftypes.List{ElementType: pubsub}}}
)

// madeUp is what a resource is told when it is made, by the resource and the path; the placeholders are arguments.
var madeUp = map[string]map[string]string{
	"data google_project":             {"number": "123456789", "billing_account": "012345-6789AB-CDEF01"},
	"data archive_file":               {"output_sha256": "5ba256"},
	"time_sleep":                      {"id": "slept"},
	"google_project_service_identity": {"email": "service-123456789@gcp-sa-eventarc.iam.gserviceaccount.com"},
	"google_service_account": {
		"email": "{account_id}@{project}.iam.gserviceaccount.com", "unique_id": "1", "id": "projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com",
	},
	"google_cloudfunctions2_function":                {"url": "https://{name}.a.run.app"},
	"google_cloudfunctions2_function.service_config": {"uri": "https://{name}.a.run.app"},
	"google_cloudfunctions2_function.event_trigger":  {"trigger": "projects/{project}/locations/{location}/triggers/{name}-123456"},
	"google_eventarc_trigger":                        {"uid": "{name}", "transport": "projects/{project}/subscriptions/of-{name}"},
	"google_firebaserules_ruleset":                   {"name": "r"},
	"google_monitoring_dashboard":                    {"id": "projects/{project}/dashboards/d"},
}

// schema is that of a resource, or of a data source, and of the blocks in it.
func schema(path string) *tfprotov5.SchemaBlock {
	block := &tfprotov5.SchemaBlock{}
	kind := strings.TrimPrefix(path, "data ")
	for name := range strings.FieldsSeq(documented[kind]) {
		block.Attributes = append(block.Attributes, attribute(name, false))
	}
	for name := range madeUp[path] {
		block.Attributes = append(block.Attributes, attribute(name, true))
	}
	for below := range documented {
		if name, is := strings.CutPrefix(below, kind+"."); is && !strings.Contains(name, ".") {
			block.BlockTypes = append(block.BlockTypes, &tfprotov5.SchemaNestedBlock{TypeName: name, Nesting: tfprotov5.SchemaNestedBlockNestingModeList, Block: schema(below)})
		}
	}
	return block
}

func attribute(name string, computed bool) *tfprotov5.SchemaAttribute {
	a := &tfprotov5.SchemaAttribute{Name: name, Type: tftypes.String, Optional: !computed, Computed: computed}
	if t, ok := notTexts[name]; ok {
		a.Type = t
	}
	return a
}

func (provider) GetProviderSchema(context.Context, *tfprotov5.GetProviderSchemaRequest) (*tfprotov5.GetProviderSchemaResponse, error) {
	all := &tfprotov5.GetProviderSchemaResponse{
		Provider:          &tfprotov5.Schema{Block: &tfprotov5.SchemaBlock{}},
		ResourceSchemas:   map[string]*tfprotov5.Schema{},
		DataSourceSchemas: map[string]*tfprotov5.Schema{},
	}
	for kind := range documented {
		switch {
		case strings.Contains(kind, ".") || kind == "terraform_data":
		case madeUp["data "+kind] != nil:
			all.DataSourceSchemas[kind] = &tfprotov5.Schema{Block: schema("data " + kind)}
		default:
			all.ResourceSchemas[kind] = &tfprotov5.Schema{Block: schema(kind)}
		}
	}
	return all, nil
}

// filled is what a resource comes to: its arguments, and what is made up.
func filled(path string, arguments *tfprotov5.DynamicValue) (*tfprotov5.DynamicValue, error) {
	of := schema(path).ValueType()
	value, err := arguments.Unmarshal(of)
	if err != nil {
		return nil, err
	}
	var top map[string]tftypes.Value
	if err := value.As(&top); err != nil {
		return nil, err
	}
	placeholders := []string{}
	for name, v := range top {
		if text := ""; v.Type().Is(tftypes.String) && v.IsKnown() && !v.IsNull() && v.As(&text) == nil {
			placeholders = append(placeholders, "{"+name+"}", text)
		}
	}
	value, err = tftypes.Transform(value, func(at *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		block, name := path, ""
		for _, step := range at.Steps() {
			if is, ok := step.(tftypes.AttributeName); ok {
				if name != "" {
					block += "." + name
				}
				name = string(is)
			}
		}
		made, is := madeUp[block][name]
		if !is {
			return v, nil
		}
		told := tftypes.NewValue(tftypes.String, strings.NewReplacer(placeholders...).Replace(made))
		if name != "transport" {
			return told, nil
		}
		subscription := tftypes.NewValue(pubsub, map[string]tftypes.Value{"subscription": told})
		list := tftypes.NewValue(tftypes.List{ElementType: pubsub}, []tftypes.Value{subscription})
		return tftypes.NewValue(v.Type(), []tftypes.Value{tftypes.NewValue(transport, map[string]tftypes.Value{"pubsub": list})}), nil
	})
	if err != nil {
		return nil, err
	}
	out, err := tfprotov5.NewDynamicValue(of, value)
	return &out, err
}

func (provider) PlanResourceChange(_ context.Context, r *tfprotov5.PlanResourceChangeRequest) (*tfprotov5.PlanResourceChangeResponse, error) {
	if gone, err := r.ProposedNewState.IsNull(); err != nil || gone {
		return &tfprotov5.PlanResourceChangeResponse{PlannedState: r.ProposedNewState}, err
	}
	planned, err := filled(r.TypeName, r.ProposedNewState)
	return &tfprotov5.PlanResourceChangeResponse{PlannedState: planned}, err
}

// All that is told was planned.
func (provider) ApplyResourceChange(_ context.Context, r *tfprotov5.ApplyResourceChangeRequest) (*tfprotov5.ApplyResourceChangeResponse, error) {
	return &tfprotov5.ApplyResourceChangeResponse{NewState: r.PlannedState}, nil
}

func (provider) UpgradeResourceState(_ context.Context, r *tfprotov5.UpgradeResourceStateRequest) (*tfprotov5.UpgradeResourceStateResponse, error) {
	of := schema(r.TypeName).ValueType()
	value, err := r.RawState.Unmarshal(of)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov5.NewDynamicValue(of, value)
	return &tfprotov5.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

func (provider) ReadResource(_ context.Context, r *tfprotov5.ReadResourceRequest) (*tfprotov5.ReadResourceResponse, error) {
	return &tfprotov5.ReadResourceResponse{NewState: r.CurrentState}, nil
}

func (provider) ReadDataSource(_ context.Context, r *tfprotov5.ReadDataSourceRequest) (*tfprotov5.ReadDataSourceResponse, error) {
	read, err := filled("data "+r.TypeName, r.Config)
	return &tfprotov5.ReadDataSourceResponse{State: read}, err
}

func (provider) GetResourceIdentitySchemas(context.Context, *tfprotov5.GetResourceIdentitySchemasRequest) (*tfprotov5.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov5.GetResourceIdentitySchemasResponse{}, nil // which later terraforms ask for
}

func (provider) PrepareProviderConfig(_ context.Context, r *tfprotov5.PrepareProviderConfigRequest) (*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (provider) ConfigureProvider(context.Context, *tfprotov5.ConfigureProviderRequest) (*tfprotov5.ConfigureProviderResponse, error) {
	return &tfprotov5.ConfigureProviderResponse{}, nil
}

func (provider) StopProvider(context.Context, *tfprotov5.StopProviderRequest) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}

func (provider) ValidateResourceTypeConfig(context.Context, *tfprotov5.ValidateResourceTypeConfigRequest) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	return &tfprotov5.ValidateResourceTypeConfigResponse{}, nil
}

func (provider) ValidateDataSourceConfig(context.Context, *tfprotov5.ValidateDataSourceConfigRequest) (*tfprotov5.ValidateDataSourceConfigResponse, error) {
	return &tfprotov5.ValidateDataSourceConfigResponse{}, nil
}

// providers serves the stand-in to all of this package's terraforms, and returns where they find it: a value of
// TF_REATTACH_PROVIDERS.
var providers = sync.OnceValue(func() string {
	type at struct{ Network, String string }
	type reattach struct {
		Protocol        string
		ProtocolVersion int
		Pid             int
		Test            bool
		Addr            at
	}
	all := map[string]reattach{}
	_ = os.Setenv("TF_LOG_SDK_PROTO", "off") // it would log each call
	for _, name := range []string{"google", "google-beta", "archive", "time"} {
		address := "registry.terraform.io/hashicorp/" + name
		serving := make(chan *plugin.ReattachConfig)
		go func() {
			_ = tf5server.Serve(address, func() tfprotov5.ProviderServer { return provider{} }, tf5server.WithoutLogStderrOverride(),
				tf5server.WithGoPluginLogger(hclog.NewNullLogger()), tf5server.WithDebug(context.Background(), serving, nil))
		}()
		c := <-serving
		all[address] = reattach{string(c.Protocol), c.ProtocolVersion, c.Pid, c.Test, at{c.Addr.Network(), c.Addr.String()}}
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // Not possible: it is made of texts.
	}
	return string(text)
})
