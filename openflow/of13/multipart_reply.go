package of13

// Desc reads the body of PartDesc.
func (m *MultipartReply) Desc() (Desc, bool) { return single[Desc](m.Part, PartDesc, m.Body) }

// Flows reads the body of PartFlow.
func (m *MultipartReply) Flows() List[FlowStats] {
	return entries[FlowStats](m.Part, PartFlow, m.Body)
}

// Aggregate reads the body of PartAggregate.
func (m *MultipartReply) Aggregate() (AggregateStats, bool) {
	return single[AggregateStats](m.Part, PartAggregate, m.Body)
}

// Tables reads the body of PartTable.
func (m *MultipartReply) Tables() List[TableStats] {
	return entries[TableStats](m.Part, PartTable, m.Body)
}

// PortStats reads the body of PartPortStats.
func (m *MultipartReply) PortStats() List[PortStats] {
	return entries[PortStats](m.Part, PartPortStats, m.Body)
}

// Queues reads the body of PartQueue.
func (m *MultipartReply) Queues() List[QueueStats] {
	return entries[QueueStats](m.Part, PartQueue, m.Body)
}

// Groups reads the body of PartGroup.
func (m *MultipartReply) Groups() List[GroupStats] {
	return entries[GroupStats](m.Part, PartGroup, m.Body)
}

// GroupDescs reads the body of PartGroupDesc.
func (m *MultipartReply) GroupDescs() List[GroupDesc] {
	return entries[GroupDesc](m.Part, PartGroupDesc, m.Body)
}

// GroupFeatures reads the body of PartGroupFeatures.
func (m *MultipartReply) GroupFeatures() (GroupFeatures, bool) {
	return single[GroupFeatures](m.Part, PartGroupFeatures, m.Body)
}

// Meters reads the body of PartMeter.
func (m *MultipartReply) Meters() List[MeterStatistics] {
	return entries[MeterStatistics](m.Part, PartMeter, m.Body)
}

// MeterConfigs reads the body of PartMeterConfig.
func (m *MultipartReply) MeterConfigs() List[MeterConfig] {
	return entries[MeterConfig](m.Part, PartMeterConfig, m.Body)
}

// MeterFeatures reads the body of PartMeterFeatures.
func (m *MultipartReply) MeterFeatures() (MeterFeatures, bool) {
	return single[MeterFeatures](m.Part, PartMeterFeatures, m.Body)
}

// TableFeatures reads the body of PartTableFeatures.
func (m *MultipartReply) TableFeatures() List[TableFeatures] {
	return entries[TableFeatures](m.Part, PartTableFeatures, m.Body)
}

// PortDescs reads the body of PartPortDesc.
func (m *MultipartReply) PortDescs() List[PortDesc] {
	return entries[PortDesc](m.Part, PartPortDesc, m.Body)
}

// Experimenter reads the body of PartExperimenter.
func (m *MultipartReply) Experimenter() (Experimenter, bool) {
	return experimenterPart(m.Part, m.Body)
}
